//! Answers one query of the suite with hudi-rs: `conformance-reader TABLE KIND OPTIONS` prints an Arrow IPC stream.
//!
//! Refuses with status 1, and the reason as the last line of its errors; status 3 says that there is no such query.

use std::error::Error;
use std::io::{stdout, BufWriter};

use arrow::ipc::writer::StreamWriter;
use hudi::table::{QueryType, ReadOptions, Table};
use serde_json::Value;

const BEGIN: &str = "hoodie.datasource.read.begin.instanttime";
const END: &str = "hoodie.datasource.read.end.instanttime";
const AS_OF: &str = "as.of.instant";
const READ_OPTIMIZED: &str = "hoodie.read.use.read_optimized.mode";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.get(1).is_some_and(|kind| kind == "cdc") {
        eprintln!("no query for changes");
        std::process::exit(3);
    }
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    if let Err(error) = runtime.block_on(answer(&arguments)) {
        eprintln!("{}", error.to_string().replace('\n', " "));
        std::process::exit(1);
    }
}

async fn answer(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let [table, kind, options] = arguments else {
        return Err("usage: conformance-reader TABLE KIND OPTIONS".into());
    };
    let options: Value = serde_json::from_str(options)?;
    let asked = read_options(kind, &options)?;
    let table = Table::new(table).await?;
    let batches = table.read(&asked).await?;
    let schema = match batches.first() {
        Some(batch) => batch.schema(),
        None => table.get_schema_with_meta_fields().await?.into(),
    };
    let mut writer = StreamWriter::try_new(BufWriter::new(stdout().lock()), &schema)?;
    for batch in &batches {
        writer.write(batch)?;
    }
    writer.finish()?;
    Ok(())
}

fn read_options(kind: &str, options: &Value) -> Result<ReadOptions, Box<dyn Error>> {
    let mut asked = ReadOptions::new();
    match kind {
        "read_optimized" => asked = asked.with_hudi_option(READ_OPTIMIZED, "true"),
        "incremental" => {
            asked = asked.with_query_type(QueryType::Incremental);
            if let Some(begin) = options[BEGIN].as_str() {
                asked = asked.with_start_timestamp(begin);
            }
            if let Some(end) = options[END].as_str() {
                asked = asked.with_end_timestamp(end);
            }
        }
        "snapshot_filtered" => asked = asked.with_filters(filters(options)?)?,
        _ => {}
    }
    if let Some(instant) = options[AS_OF].as_str() {
        asked = asked.with_as_of_timestamp(instant);
    }
    Ok(asked)
}

/// Comparisons of a column with a value, joined by AND.
fn filters(options: &Value) -> Result<Vec<(String, String, String)>, Box<dyn Error>> {
    let comparisons = options["filter"].as_array().ok_or("no conditions but comparisons")?;
    let mut filters = Vec::new();
    for comparison in comparisons {
        let text = |index: usize| match &comparison[index] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        filters.push((text(0), text(1), text(2)));
    }
    Ok(filters)
}

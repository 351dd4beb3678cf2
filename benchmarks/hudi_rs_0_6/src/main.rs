//! Reads tables with `hudi-core`, for the suite of golden tables and for the benchmarks.
//!
//!     hudi_rs_0_6 TABLE KIND OPTIONS    prints the rows of a query as an Arrow IPC stream
//!     hudi_rs_0_6 measure QUESTION      prints what a read took, as a line of JSON
//!
//! tests/golden/README.md has the form of queries, and of the exit status; `measure.rs` that of questions.

mod measure;

use std::error::Error;
use std::io::{BufWriter, stdout};
use std::process::ExitCode;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::StreamWriter;
use hudi_core::table::builder::TableBuilder;
use hudi_core::table::{QueryType, ReadOptions, Table};
use serde_json::Value;
use tokio::runtime::Runtime;

type Outcome<T> = Result<T, Box<dyn Error>>;

const NOT_OFFERED: u8 = 3;
const BEGIN: &str = "hoodie.datasource.read.begin.instanttime";
const END: &str = "hoodie.datasource.read.end.instanttime";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match given[..] {
        ["measure", question] => measure::answer(question),
        [_, "cdc", _] => {
            eprintln!("no query for changes");
            return ExitCode::from(NOT_OFFERED);
        }
        [table, kind, options] => print_rows(table, kind, options),
        _ => Err("expected TABLE KIND OPTIONS, or measure QUESTION".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", error.to_string().replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}

fn print_rows(table: &str, kind: &str, options: &str) -> Outcome<()> {
    let read = query(kind, &serde_json::from_str(options)?)?;
    let (schema, batches) = Runtime::new()?.block_on(async {
        let table = TableBuilder::from_base_uri(table).build().await?;
        let batches = table.read(&read).await?;
        Ok::<_, Box<dyn Error>>((schema_of(&table, &batches).await?, batches))
    })?;
    write_stream(BufWriter::new(stdout().lock()), schema, batches)
}

/// The options of the crate for a kind of query and the options of Hudi's data source.
///
/// Conditions other than comparisons are for the caller, who applies them to the rows.
fn query(kind: &str, options: &Value) -> Outcome<ReadOptions> {
    let text = |name: &str| options[name].as_str();
    let mut read = ReadOptions::new().with_filters(comparisons(&options["filter"]))?;
    if kind == "incremental" {
        let begin = text(BEGIN).ok_or("no instant to begin at")?;
        read = read.with_query_type(QueryType::Incremental).with_start_timestamp(begin);
        if let Some(end) = text(END) {
            read = read.with_end_timestamp(end);
        }
    }
    if let Some(instant) = text("as.of.instant") {
        read = read.with_as_of_timestamp(instant);
    }
    if kind == "read_optimized" {
        read = read.with_hudi_option("hoodie.read.use.read_optimized.mode", "true");
    }
    Ok(read)
}

/// Column, operator and value of each comparison of a list in JSON.
fn comparisons(filter: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let all = filter.as_array().into_iter().flatten();
    all.map(|one| (text(&one[0]), text(&one[1]), text(&one[2]))).collect()
}

/// The schema of an answer; of an empty one, that of the table.
async fn schema_of(table: &Table, batches: &[RecordBatch]) -> Outcome<SchemaRef> {
    match batches.first() {
        Some(first) => Ok(first.schema()),
        None => Ok(table.get_schema_with_meta_fields().await?.into()),
    }
}

/// Writes batches, which must be of one schema but for metadata and what may be null.
fn write_stream(into: impl std::io::Write, schema: SchemaRef, batches: Vec<RecordBatch>) -> Outcome<()> {
    let mut writer = StreamWriter::try_new(into, &schema)?;
    for batch in batches {
        writer.write(&RecordBatch::try_new(schema.clone(), batch.columns().to_vec())?)?;
    }
    Ok(writer.finish()?)
}

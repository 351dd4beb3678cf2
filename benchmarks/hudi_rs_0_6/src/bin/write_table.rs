//! Writes a table with `hudi-core`, for the golden tables of tests/golden/rust_writer.py.
//!
//!     write_table FOLDER RECIPE
//!
//! The recipe is a file of JSON: `table`, with `type` and `version`, the lists `keys`, `partitions` and `ordering`,
//! `hive_style`, `metadata_table`, `meta_columns` and other `options`, and `steps`. A step is a list of what is done and its
//! arguments; rows are the name of a file beside the recipe, an Arrow IPC stream.

// Futures of the crate's writes are nested more deeply than the compiler takes by itself.
#![recursion_limit = "256"]

use std::error::Error;
use std::fs::{File, read_to_string};
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::ipc::reader::StreamReader;
use hudi_core::config::table::TableTypeValue;
use hudi_core::table::Table;
use hudi_core::{HoodieKey, UpsertOptions};
use serde_json::Value;
use tokio::runtime::Runtime;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, recipe] = &arguments[..] else {
        return Err("expected FOLDER RECIPE".into());
    };
    Runtime::new()?.block_on(write(folder, Path::new(recipe)))
}

async fn write(folder: &str, path: &Path) -> Outcome<()> {
    let recipe: Value = serde_json::from_str(&read_to_string(path)?)?;
    let mut table = created(folder, &recipe["table"]).await?;
    for step in recipe["steps"].as_array().ok_or("no steps")? {
        let rows = || rows_of(&path.with_file_name(text(&step[1])?));
        match text(&step[0])? {
            "append" => drop(table.append(rows()?).await?),
            "upsert" => {
                let update_columns = step[2].as_array().map(|_| texts(&step[2]));
                drop(table.upsert_with(rows()?, UpsertOptions { update_columns }).await?);
            }
            "overwrite" => drop(table.overwrite(rows()?).await?),
            "overwrite partitions" => drop(table.dynamic_partition_overwrite(rows()?).await?),
            "update" => {
                let values = rows_of(&path.with_file_name(text(&step[2])?))?;
                drop(table.update(text(&step[1])?, values[0].clone()).await?);
            }
            "delete" => drop(table.delete(text(&step[1])?).await?),
            "delete key" => {
                let (record_key, partition_path) = (text(&step[1])?.into(), text(&step[2])?.into());
                drop(table.delete_keys([HoodieKey { record_key, partition_path }]).await?);
            }
            "compact" => drop(table.compact().await?),
            other => return Err(format!("no such step: {other}").into()),
        }
    }
    Ok(())
}

async fn created(folder: &str, about: &Value) -> Outcome<Table> {
    let table_type = match text(&about["type"])? {
        "MERGE_ON_READ" => TableTypeValue::MergeOnRead,
        _ => TableTypeValue::CopyOnWrite,
    };
    let mut builder = Table::create(folder)
        .with_table_name("rust")
        .with_table_type(table_type)
        .with_table_version(about["version"].as_i64().ok_or("no version")? as isize)
        .with_record_key_fields(texts(&about["keys"]))
        .with_partition_fields(texts(&about["partitions"]))
        .with_ordering_fields(texts(&about["ordering"]))
        .with_hive_style_partitioning(about["hive_style"] == true)
        .with_metadata_table_enabled(about["metadata_table"] == true)
        .with_populates_meta_fields(about["meta_columns"] == true);
    for (name, value) in about["options"].as_object().into_iter().flatten() {
        builder = builder.with_option(name, text(value)?);
    }
    Ok(builder.create().await?)
}

fn rows_of(path: &Path) -> Outcome<Vec<RecordBatch>> {
    let batches: Result<Vec<_>, _> = StreamReader::try_new(File::open(path)?, None)?.collect();
    Ok(batches?)
}

fn text(value: &Value) -> Outcome<&str> {
    value.as_str().ok_or_else(|| format!("no text: {value}").into())
}

fn texts(list: &Value) -> Vec<String> {
    let all = list.as_array().into_iter().flatten();
    all.filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

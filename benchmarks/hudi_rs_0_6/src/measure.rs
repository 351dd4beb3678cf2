//! Answers one question of the benchmarks, which has the fields
//!
//! - `table`: a path or a URI, and `storage`, the options of its store;
//! - `columns`, `filters` (column, operator, value) and `delivery` of the read;
//! - `into`: a file for the rows, as an Arrow IPC stream, if they are to be compared and not timed.
//!
//! The process is new: as before a read in the other benchmarks, code is in memory before the clock starts.

use std::collections::HashMap;
use std::fs::{File, read_to_string};
use std::io::BufWriter;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream::{self, StreamExt, TryStreamExt};
use hudi_core::table::builder::TableBuilder;
use hudi_core::table::{ReadOptions, Table};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::{Outcome, comparisons, schema_of, write_stream};

const BATCH_ROWS: usize = 8_192;
/// `MADV_POPULATE_READ` and `_WRITE` of Linux 5.14, which older kernels refuse.
const POPULATE_READ: i32 = 22;
const POPULATE_WRITE: i32 = 23;

/// Prints the fields of a `Reading` and the number of rows; with `into`, that number alone.
pub fn answer(question: &str) -> Outcome<()> {
    let asked: Value = serde_json::from_str(question)?;
    if let Some(path) = asked["into"].as_str() {
        let (schema, batches) = Runtime::new()?.block_on(rows(&asked))?;
        let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
        write_stream(BufWriter::new(File::create(path)?), schema, batches)?;
        println!("{}", json!({ "rows": count }));
        return Ok(());
    }
    bring_code_into_memory()?;
    let resident = memory("VmRSS:")?;
    let (bytes_before, calls_before) = (reads("rchar:")?, reads("syscr:")?);
    let (start, cpu_start) = (Instant::now(), cpu_seconds());
    let count = Runtime::new()?.block_on(delivered(&asked))?;
    let (seconds, cpu_used) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu_start);
    let taken = json!({
        "seconds": seconds,
        "cpu_seconds": cpu_used,
        "peak_bytes": memory("VmHWM:")? - resident,
        "read_bytes": reads("rchar:")? - bytes_before,
        "requests": reads("syscr:")? - calls_before,
        "rows": count,
    });
    println!("{taken}");
    Ok(())
}

async fn open(asked: &Value) -> Outcome<(Table, ReadOptions)> {
    let storage: HashMap<String, String> = serde_json::from_value(asked["storage"].clone())?;
    let table = asked["table"].as_str().ok_or("no table")?;
    let mut read = ReadOptions::new().with_batch_size(BATCH_ROWS)?.with_filters(comparisons(&asked["filters"]))?;
    if let Some(columns) = asked["columns"].as_array() {
        read = read.with_projection(columns.iter().filter_map(Value::as_str));
    }
    Ok((TableBuilder::from_base_uri(table).with_options(storage).build().await?, read))
}

/// The number of rows of a read, once they are delivered.
async fn delivered(asked: &Value) -> Outcome<usize> {
    let (table, read) = open(asked).await?;
    match asked["delivery"].as_str() {
        Some("table") => Ok(all(&table, &read).await?.iter().map(RecordBatch::num_rows).sum()),
        Some("first batch") => {
            let first = table.read_stream(&read).await?.next().await;
            Ok(first.ok_or("no rows")??.num_rows())
        }
        _ => {
            let (mut batches, mut count) = (table.read_stream(&read).await?, 0);
            while let Some(batch) = batches.next().await {
                count += batch?.num_rows();
            }
            Ok(count)
        }
    }
}

/// The rows of a read, with their schema.
async fn rows(asked: &Value) -> Outcome<(SchemaRef, Vec<RecordBatch>)> {
    let (table, read) = open(asked).await?;
    let batches = match asked["delivery"].as_str() {
        Some("table") => all(&table, &read).await?,
        _ => table.read_stream(&read).await?.try_collect().await?,
    };
    Ok((schema_of(&table, &batches).await?, batches))
}

/// All rows in memory: streams of the file slices, so many at once as there are cores, each in a task.
async fn all(table: &Table, read: &ReadOptions) -> Outcome<Vec<RecordBatch>> {
    let reader = table.create_file_group_reader_with_options(Some(read), [("", ""); 0]).await?;
    let cores = std::thread::available_parallelism()?.get();
    let slices = table.get_file_slices(read).await?;
    let tasks = slices.into_iter().map(|slice| {
        let (reader, read) = (reader.clone(), read.clone());
        tokio::spawn(async move {
            let batches = reader.read_file_slice_stream(&slice, &read).await?;
            batches.try_collect::<Vec<_>>().await
        })
    });
    let mut batches = Vec::new();
    let mut finished = stream::iter(tasks).buffered(cores);
    while let Some(of_slice) = finished.next().await {
        batches.extend(of_slice??);
    }
    Ok(batches)
}

/// Bring all that is mapped into memory, so that neither time nor memory of a read counts it.
fn bring_code_into_memory() -> Outcome<()> {
    for line in read_to_string("/proc/self/maps")?.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = fields[0].split_once('-').ok_or("no addresses")?;
        let (start, end) = (usize::from_str_radix(start, 16)?, usize::from_str_radix(end, 16)?);
        let is_file = fields.last().is_some_and(|name| name.starts_with('/'));
        let advice = match (is_file, fields[1]) {
            (_, "rw-p") => POPULATE_WRITE,
            (true, permissions) if permissions.starts_with('r') => POPULATE_READ,
            _ => continue,
        };
        // SAFETY: the advice changes no contents, and fails for addresses that are not mapped.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, advice) };
    }
    Ok(())
}

/// Bytes of a field of this process, such as `VmHWM:`, the peak of its resident memory.
fn memory(field: &str) -> Outcome<i64> {
    Ok(number("/proc/self/status", field)? << 10)
}

/// Bytes read by system calls (`rchar:`), or the number of these (`syscr:`).
fn reads(field: &str) -> Outcome<i64> {
    number("/proc/self/io", field)
}

fn number(file: &str, field: &str) -> Outcome<i64> {
    let text = read_to_string(file)?;
    let rest = text.lines().find_map(|line| line.strip_prefix(field));
    let first = rest.and_then(|rest| rest.split_whitespace().next());
    Ok(first.ok_or("no such field")?.parse()?)
}

/// The CPU time of all threads.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a value of the type that is written.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

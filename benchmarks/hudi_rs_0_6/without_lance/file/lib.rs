//! What `hudi-core` names of `lance-file`, of which nothing can be made.

use lance_io::scheduler::FileScheduler;

pub enum LanceEncodingsIo {}

impl LanceEncodingsIo {
    pub fn new(scheduler: FileScheduler) -> Self {
        match scheduler {}
    }

    pub fn with_read_chunk_size(self, _: u64) -> Self {
        match self {}
    }
}

pub mod reader {
    use std::pin::Pin;
    use std::sync::Arc;

    use arrow_array::RecordBatch;
    use arrow_schema::SchemaRef;
    use futures::Stream;
    use lance_core::cache::LanceCache;
    use lance_core::{Result, Schema};
    use lance_encoding::decoder::{DecoderPlugins, FilterExpression};
    use lance_io::ReadBatchParams;
    use lance_io::scheduler::FileScheduler;
    use object_store::path::Path;

    use crate::LanceEncodingsIo;
    use crate::versions::Version;

    pub struct CachedFileMetadata {
        pub file_schema: Arc<Schema>,
        pub num_rows: u64,
        version: Version,
    }

    pub enum ReaderProjection {}

    pub enum FileReader {}

    #[derive(Default)]
    pub struct FileReaderOptions {
        pub read_chunk_size: u64,
    }

    pub trait RecordBatchStream: Stream<Item = Result<RecordBatch>> + Send {
        fn schema(&self) -> SchemaRef;
    }

    impl CachedFileMetadata {
        pub fn version(&self) -> Version {
            match self.version {}
        }
    }

    impl FileReader {
        pub async fn read_all_metadata(scheduler: &FileScheduler) -> Result<CachedFileMetadata> {
            match *scheduler {}
        }

        pub async fn try_open_with_file_metadata(
            encodings: Arc<LanceEncodingsIo>,
            _: Path,
            _: Option<ReaderProjection>,
            _: Arc<DecoderPlugins>,
            _: Arc<CachedFileMetadata>,
            _: &LanceCache,
            _: FileReaderOptions,
        ) -> Result<Self> {
            match *encodings {}
        }

        pub async fn read_stream(
            &self,
            _: ReadBatchParams,
            _: u32,
            _: u32,
            _: FilterExpression,
        ) -> Result<Pin<Box<dyn RecordBatchStream>>> {
            match *self {}
        }

        pub fn schema(&self) -> &Arc<Schema> {
            match *self {}
        }

        pub fn num_rows(&self) -> u64 {
            match *self {}
        }
    }
}

pub mod versions {
    use lance_core::{Result, Schema};

    use crate::reader::ReaderProjection;

    #[derive(Clone, Copy)]
    pub enum Version {}

    pub fn reader_projection_from_column_names(version: Version, _: &Schema, _: &[&str]) -> Result<ReaderProjection> {
        match version {}
    }
}

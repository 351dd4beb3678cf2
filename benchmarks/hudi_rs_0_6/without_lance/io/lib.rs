//! What `hudi-core` names of `lance-io`: the first step to a file, that to its store, is an error.

pub enum ReadBatchParams {
    RangeFull,
}

pub mod object_store {
    use std::collections::HashMap;
    use std::sync::Arc;

    use lance_core::{Error, Result};
    use object_store::path::Path;
    use url::Url;

    pub enum ObjectStore {}

    #[derive(Default)]
    pub struct ObjectStoreRegistry;

    pub struct StorageOptionsAccessor;

    #[derive(Default)]
    pub struct ObjectStoreParams {
        pub object_store: Option<(Arc<dyn object_store::ObjectStore>, Url)>,
        pub storage_options_accessor: Option<Arc<StorageOptionsAccessor>>,
        pub block_size: Option<usize>,
    }

    impl StorageOptionsAccessor {
        pub fn with_static_options(_: HashMap<String, String>) -> Self {
            Self
        }
    }

    impl ObjectStore {
        pub async fn from_uri_and_params(
            _: Arc<ObjectStoreRegistry>,
            _: &str,
            _: &ObjectStoreParams,
        ) -> Result<(Arc<Self>, Path)> {
            Err(Error)
        }
    }
}

pub mod scheduler {
    use std::sync::Arc;

    use lance_core::Result;
    use object_store::path::Path;

    use crate::object_store::ObjectStore;
    use crate::utils::CachedFileSize;

    pub enum SchedulerConfig {}

    pub enum ScanScheduler {}

    pub enum FileScheduler {}

    pub enum Reader {}

    impl SchedulerConfig {
        pub fn max_bandwidth(store: &ObjectStore) -> Self {
            match *store {}
        }
    }

    impl ScanScheduler {
        pub fn new(_: Arc<ObjectStore>, config: SchedulerConfig) -> Arc<Self> {
            match config {}
        }

        pub async fn open_file(&self, _: &Path, _: &CachedFileSize) -> Result<FileScheduler> {
            match *self {}
        }
    }

    impl FileScheduler {
        pub fn reader(&self) -> &Reader {
            match *self {}
        }
    }

    impl Reader {
        pub fn path(&self) -> &Path {
            match *self {}
        }
    }
}

pub mod utils {
    pub struct CachedFileSize;

    impl CachedFileSize {
        pub fn new(_: u64) -> Self {
            Self
        }

        pub fn unknown() -> Self {
            Self
        }
    }
}

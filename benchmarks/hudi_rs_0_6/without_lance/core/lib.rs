//! What `hudi-core` names of `lance-core`, of which nothing but the error can be made.

use std::fmt::{Display, Formatter};

/// Says that Lance files are not read.
#[derive(Debug)]
pub struct Error;

pub type Result<T> = std::result::Result<T, Error>;

impl Display for Error {
    fn fmt(&self, into: &mut Formatter<'_>) -> std::fmt::Result {
        into.write_str("this program is built without Lance")
    }
}

impl std::error::Error for Error {}

/// The schema of a file.
pub enum Schema {}

impl From<&Schema> for arrow_schema::Schema {
    fn from(schema: &Schema) -> Self {
        match *schema {}
    }
}

pub mod cache {
    pub struct LanceCache;

    impl LanceCache {
        pub fn no_cache() -> Self {
            Self
        }
    }
}

pub mod utils {
    pub mod tokio {
        pub fn get_num_compute_intensive_cpus() -> usize {
            1
        }
    }
}

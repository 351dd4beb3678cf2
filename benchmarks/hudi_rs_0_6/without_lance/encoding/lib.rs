//! What `hudi-core` names of `lance-encoding`.

pub mod decoder {
    pub struct DecoderPlugins {}

    pub struct FilterExpression;

    impl FilterExpression {
        pub fn no_filter() -> Self {
            Self
        }
    }
}

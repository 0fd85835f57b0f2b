#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::target("stream_v1_0").unwrap()(data));

#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::target("stream_v0_3").unwrap()(data));

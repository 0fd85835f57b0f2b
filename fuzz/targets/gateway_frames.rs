#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::target("gateway_frames").unwrap()(data));

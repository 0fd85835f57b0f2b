#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::target("reply_v0_3").unwrap()(data));

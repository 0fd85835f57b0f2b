#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::target("mcp_request").unwrap()(data));

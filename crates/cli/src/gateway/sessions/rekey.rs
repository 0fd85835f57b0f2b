//! `remote-agent gateway sessions rekey`: encrypts or decrypts all sessions.

use std::sync::Arc;

use base::environment::SystemEnvironment;
use gateway_server::sessions::{Form, SessionError, Sessions};
use serde_json::json;

use super::super::gateway_args::FileArgs;
use super::manage_failure;
use crate::{
    exit::{Exit, Failure},
    output::{LineWriter, StandardError, note},
};

/// The number of sessions after which `rekey` reports its progress.
const REKEY_REPORT: u64 = 1000;

/// Rewrites all sessions, and prints the number of rewritten, unchanged and failed ones.
pub(super) fn run(plain: bool, files: &FileArgs, as_json: bool) -> Result<Exit, Failure> {
    let config = files.read()?;
    let failed = |error: SessionError| match error {
        SessionError::Locked(folder, _) => Failure::new(format!(
            "a gateway uses the sessions in `{}`; stop it, and run the command again",
            folder.display()
        )),
        error => manage_failure(&error.into()),
    };
    let (env, log) = (SystemEnvironment, StandardError { verbose: false });
    let sessions = Sessions::open(&config, Arc::new(env), Arc::new(log)).map_err(failed)?;
    let form = if plain { Form::Plain } else { Form::Encrypted };
    let (mut rewritten, mut unchanged, mut failures) = (0_u64, 0_u64, 0_u64);
    let done = sessions.rekey(form, |_, result| {
        match result {
            Ok(true) => rewritten += 1,
            Ok(false) => unchanged += 1,
            Err(error) => {
                failures += 1;
                note(error);
            }
        }
        let seen = rewritten + unchanged + failures;
        if seen.is_multiple_of(REKEY_REPORT) {
            note(format_args!("{seen} sessions so far"));
        }
    });
    done.map_err(failed)?;
    let json = json!({"rewritten": rewritten, "unchanged": unchanged, "failed": failures});
    LineWriter::default().write_as(as_json, &json, || {
        let verb = if plain { "decrypted" } else { "encrypted" };
        let sessions = base::text::counted(rewritten, "session", "sessions");
        format!("{verb} {sessions}; {unchanged} already were, {failures} failed")
    });
    Ok(Exit::from_success(failures == 0))
}

//! `remote-agent gateway keygen`: makes a key for signatures of messages, and shows its public key.

use std::{
    fs,
    io::{ErrorKind, Write as _},
    path::PathBuf,
};

use base::{files::create_private, jws::SigningKey, key_source::KeySource};

use crate::{
    exit::{Exit, Failure},
    output::{LineWriter, note},
};

const EXAMPLES: &str = "\
Examples:
  remote-agent gateway keygen alpha.pem
  remote-agent gateway agent --name alpha --vote approve \\
    --signing-key alpha.pem

The command prints the public key for `agents[].keys` of the gateway's configuration. It does not replace a file: \
it prints the public key of an existing one.";

/// Make a key that signs messages, and print its public key as a JSON Web Key
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The file with the private key (PEM)
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Runs the subcommand.
///
/// # Errors
/// The file cannot be written, or the existing one holds no key.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let name = args.file.display();
    let pem = SigningKey::generate_pem()
        .ok_or_else(|| Failure::new("cannot make a key: the system gives no random numbers"))?;
    match create_private(&args.file) {
        Ok(mut file) => {
            file.write_all(pem.as_bytes()).map_err(|error| {
                let _ = fs::remove_file(&args.file);
                Failure::new(format!("cannot write `{name}`: {error}"))
            })?;
            note(format_args!(
                "made the private key `{name}`; its public key:"
            ));
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            note(format_args!("`{name}` exists; its public key:"));
        }
        Err(error) => return Err(Failure::new(format!("cannot write `{name}`: {error}"))),
    }
    let source = KeySource::KeyFile(args.file.clone());
    let key = SigningKey::read_for_messages(&source, |_| None).map_err(Failure::usage)?;
    LineWriter::default().write(key.public_key().to_string());
    Ok(Exit::Ok)
}

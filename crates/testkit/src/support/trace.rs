//! Stops a process at its writes, with ptrace: kills it there, or lets the write fail.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

/// What happens at a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtWrite {
    /// SIGKILL before the write.
    Kill,
    /// The write fails, and writes nothing. Only writes that need space fail.
    NoSpace,
}

/// How many writes of a program [`at_each_write`] tests. `CRASH_ROUNDS` sets another number.
const ROUNDS: usize = 10;

/// The system calls that change a file or its directory, or wait for the disk.
const WRITES: [libc::c_long; 13] = [
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_rename,
    libc::SYS_renameat2,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
];

/// How many of [`WRITES`] need space.
const GROWING: usize = 6;

/// How many of [`WRITES`] name a descriptor.
const WITH_DESCRIPTOR: usize = 9;

/// Returns a command that waits for [`follow`] before it runs `program`.
#[must_use]
pub fn command(program: &Path) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", "read _; exec \"$0\" \"$@\" </dev/null"])
        .arg(program)
        .stdin(Stdio::piped());
    command
}

/// Runs a program once without a fault, then with a fault at some of its writes. `run` returns the number of writes.
#[expect(clippy::print_stdout, reason = "the number of writes is a result")]
pub fn at_each_write(at: AtWrite, mut run: impl FnMut(Option<usize>) -> usize) {
    let writes = run(None);
    let rounds = std::env::var("CRASH_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let rounds = rounds.min(writes);
    for round in 0..rounds {
        run(Some(round * writes / rounds));
    }
    println!("{at:?} at {rounds} of {writes} writes: no acknowledged change lost");
}

/// Runs a process of [`command`]. `at` happens at one of its writes below `directory`: `stop` is the number of that write,
/// from 0. The thread returns the number of writes at which `at` can happen when the process has ended. Join it before
/// [`Child::wait`], which would receive what the tracer waits for.
pub fn follow(
    child: &mut Child,
    directory: &Path,
    at: AtWrite,
    stop: Option<usize>,
) -> JoinHandle<usize> {
    let pid = Pid::from_raw(child.id().try_into().unwrap());
    let mut stdin = child.stdin.take().unwrap();
    let directory = fs::canonicalize(directory).unwrap();
    let (ready, is_ready) = mpsc::channel();
    // The thread that attaches is the tracer.
    let tracer = std::thread::spawn(move || {
        let options = Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_EXITKILL;
        ptrace::seize(pid, options).unwrap();
        ptrace::interrupt(pid).unwrap();
        ready.send(()).unwrap();
        let mut traced = Traced {
            pid,
            directory,
            at,
            stop,
            writes: 0,
        };
        traced.run();
        traced.writes
    });
    is_ready.recv().unwrap();
    stdin.write_all(b"\n").unwrap();
    tracer
}

struct Traced {
    pid: Pid,
    directory: PathBuf,
    at: AtWrite,
    stop: Option<usize>,
    writes: usize,
}

impl Traced {
    fn run(&mut self) {
        let flags = WaitPidFlag::WEXITED
            | WaitPidFlag::WSTOPPED
            | WaitPidFlag::__WALL
            | WaitPidFlag::__WNOTHREAD;
        loop {
            // The parent collects the exit status of the process; then no process is left.
            let Ok(status) = waitid(Id::All, flags | WaitPidFlag::WNOWAIT) else {
                return;
            };
            match status {
                WaitStatus::PtraceSyscall(thread) => {
                    self.at_call(thread);
                    resume(thread, None);
                }
                WaitStatus::PtraceEvent(thread, signal, event) => {
                    resume(thread, (event == 0).then_some(signal));
                }
                WaitStatus::Stopped(thread, signal) => resume(thread, Some(signal)),
                WaitStatus::Exited(thread, _) | WaitStatus::Signaled(thread, ..) => {
                    if thread == self.pid {
                        return;
                    }
                    let _ = waitpid(thread, Some(WaitPidFlag::__WALL));
                }
                _ => {}
            }
        }
    }

    /// Counts a call that begins, and stops the process at the chosen one. A call that ends needs nothing.
    fn at_call(&mut self, thread: Pid) {
        let Ok(mut registers) = ptrace::getregs(thread) else {
            return;
        };
        let begins = registers.rax.cast_signed() == -i64::from(libc::ENOSYS);
        let call = registers.orig_rax.cast_signed();
        let Some(place) = WRITES.iter().position(|write| *write == call) else {
            return;
        };
        if !begins || place < WITH_DESCRIPTOR && !self.is_inside(registers.rdi) {
            return;
        }
        if self.at == AtWrite::NoSpace && place >= GROWING {
            return;
        }
        let number = self.writes;
        self.writes += 1;
        if self.stop != Some(number) {
            return;
        }
        match self.at {
            AtWrite::Kill => kill(self.pid, Signal::SIGKILL).unwrap(),
            AtWrite::NoSpace => {
                // No system call has this number, so the kernel makes none and keeps the result that is set here.
                registers.orig_rax = u64::MAX;
                registers.rax = (-i64::from(libc::ENOSPC)).cast_unsigned();
                ptrace::setregs(thread, registers).unwrap();
            }
        }
    }

    fn is_inside(&self, descriptor: u64) -> bool {
        let link = fs::read_link(format!("/proc/{}/fd/{descriptor}", self.pid));
        link.is_ok_and(|path| path.starts_with(&self.directory))
    }
}

/// Lets a thread run to its next call. A killed one is gone.
fn resume(thread: Pid, signal: Option<Signal>) {
    match ptrace::syscall(thread, signal) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => panic!("cannot continue {thread}: {error}"),
    }
}

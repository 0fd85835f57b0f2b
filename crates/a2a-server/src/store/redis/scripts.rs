//! The Lua scripts. Redis runs each of them atomically.

use redis::{Cmd, Script, ToRedisArgs};

/// The beginning of every script.
pub(super) const COMMON: &str = include_str!("lua/common.lua");

/// The scripts. `RedisConnection` loads a script when Redis does not have it.
pub(super) struct Scripts {
    pub(super) open: Lua,
    pub(super) create: Lua,
    pub(super) append: Lua,
    pub(super) load: Lua,
    pub(super) records: Lua,
    pub(super) compact: Lua,
    pub(super) delete: Lua,
    pub(super) prune: Lua,
    pub(super) make_room: Lua,
    pub(super) list: Lua,
    pub(super) get_or_create_context: Lua,
    pub(super) pushes: Lua,
    pub(super) put_push: Lua,
    pub(super) delete_push: Lua,
    pub(super) heartbeat: Lua,
    pub(super) release_lease: Lua,
    pub(super) recover: Lua,
    pub(super) confirm_recovery: Lua,
    pub(super) unanswered: Lua,
    pub(super) cancel: Lua,
    pub(super) canceled: Lua,
    pub(super) enqueue: Lua,
    pub(super) leave: Lua,
}

/// A script with the arguments that every call has first.
pub(super) struct Lua {
    pub(super) script: Script,
    /// The script without [`COMMON`].
    pub(super) body: &'static str,
    prefix: String,
    channels: String,
    server: String,
}

impl Scripts {
    /// Creates the scripts for the server `server` and the prefixes of keys and channels.
    pub(super) fn new(prefix: &str, channels: &str, server: &str) -> Self {
        let lua = |body: &'static str| Lua {
            script: Script::new(&format!("{COMMON}\n{body}")),
            body,
            prefix: prefix.to_owned(),
            channels: channels.to_owned(),
            server: server.to_owned(),
        };
        Self {
            open: lua(include_str!("lua/open.lua")),
            create: lua(include_str!("lua/create.lua")),
            append: lua(include_str!("lua/append.lua")),
            load: lua(include_str!("lua/load.lua")),
            records: lua(include_str!("lua/records.lua")),
            compact: lua(include_str!("lua/compact.lua")),
            delete: lua(include_str!("lua/delete.lua")),
            prune: lua(include_str!("lua/prune.lua")),
            make_room: lua(include_str!("lua/make_room.lua")),
            list: lua(include_str!("lua/list.lua")),
            get_or_create_context: lua(include_str!("lua/get_or_create_context.lua")),
            pushes: lua(include_str!("lua/pushes.lua")),
            put_push: lua(include_str!("lua/put_push.lua")),
            delete_push: lua(include_str!("lua/delete_push.lua")),
            heartbeat: lua(include_str!("lua/heartbeat.lua")),
            release_lease: lua(include_str!("lua/release_lease.lua")),
            recover: lua(include_str!("lua/recover.lua")),
            confirm_recovery: lua(include_str!("lua/confirm_recovery.lua")),
            unanswered: lua(include_str!("lua/unanswered.lua")),
            cancel: lua(include_str!("lua/cancel.lua")),
            canceled: lua(include_str!("lua/canceled.lua")),
            enqueue: lua(include_str!("lua/enqueue.lua")),
            leave: lua(include_str!("lua/leave.lua")),
        }
    }
}

impl Lua {
    /// Starts a call without arguments.
    pub(super) fn call(&self) -> Call<'_> {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(self.script.get_hash())
            .arg(0)
            .arg(&self.prefix)
            .arg(&self.channels)
            .arg(&self.server);
        Call { lua: self, cmd }
    }
}

/// A call of a script.
pub(super) struct Call<'a> {
    pub(super) lua: &'a Lua,
    pub(super) cmd: Cmd,
}

impl Call<'_> {
    /// Adds an argument.
    pub(super) fn arg<T: ToRedisArgs>(mut self, arg: T) -> Self {
        self.cmd.arg(arg);
        self
    }
}

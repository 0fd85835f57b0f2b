-- The prelude of every script. ARGV[1] is the prefix of keys, ARGV[2] the prefix of channels (it names the database,
-- because Redis shares channels among databases), ARGV[3] the calling server.
local P, C, me = ARGV[1], ARGV[2], ARGV[3]

-- Each write has an absolute result, such as `HSET` instead of `HINCRBY`. Redis 7.0 applies the beginning of a script
-- again, at its second start, if it was killed while it wrote the script to its append-only file.

-- Another program may have written to keys under the prefix. A script therefore checks what it needs before it writes, and
-- returns no value that is larger than those of the servers.

-- Returns whether a key is missing or of this type.
local function holds(key, kind)
  local is = redis.call('TYPE', key)['ok']
  return is == kind or is == 'none'
end

-- Returns a stored counter. Text that is no counter counts as zero.
local function count(value)
  if value and #value <= 16 and string.match(value, '^%-?%d+$') then
    return tonumber(value)
  end
  return 0
end

-- Adds to a counter in a hash, which restarts at zero if it is no counter.
local function add(key, field, more)
  local sum = count(redis.call('HGET', key, field)) + more
  redis.call('HSET', key, field, string.format('%.0f', sum))
  return sum
end

-- Returns an id, a name or an excerpt; an empty text in place of one that no server stores, because it is longer.
local function bounded_text(text)
  return text and #text <= 4096 and text or ''
end

local function too_large()
  return redis.error_reply('TOOLARGE no server stores a value of this size')
end

-- Returns how many bytes of a task a script may return: those that the servers have counted, and room for a change that is
-- stored but not counted. No constant bounds a counter that another program wrote: the largest task is a setting of each server.
local function allowance(id)
  return math.max(0, count(redis.call('HGET', P .. 'task:' .. id, 'bytes'))) + 2 ^ 24
end

-- Returns fields of a hash; nil if the key has another type.
local function fields(key, ...)
  local is = redis.pcall('HMGET', key, ...)
  if not is.err then
    return is
  end
  if not string.find(is.err, 'WRONGTYPE', 1, true) then
    -- Fails again.
    return redis.call('HMGET', key, ...)
  end
end

local function indexes(owner, context, state)
  return {
    P .. 'all',
    P .. 'owner:' .. owner,
    P .. 'context:' .. context,
    P .. 'state:' .. state,
    P .. 'state:' .. state .. ':owner:' .. owner,
  }
end

-- Adds a field to those of one `HSET`, which costs less than several. An empty text is none.
local function put(task, field, value)
  if value ~= '' then
    task[#task + 1] = field
    task[#task + 1] = value
  end
end

-- Returns a score as a time that Rust can read.
local function time(score)
  return math.floor(math.max(-2 ^ 53, math.min(2 ^ 53, tonumber(score))))
end

-- Returns the same as text.
local function time_text(score)
  -- The scores of the servers.
  if #score < 16 and not string.find(score, '%D') then
    return score
  end
  return string.format('%.0f', time(score))
end

-- Returns what lists show of a task that last changed at `at`; nil if the task does not exist.
local function listed(id, at)
  local is = fields(P .. 'task:' .. id, 'context', 'owner', 'agent', 'state', 'since', 'created', 'asked', 'says')
  if not is or not is[2] then
    return nil
  end
  local task = { id, time_text(at) }
  for field = 1, 8 do
    task[field + 2] = bounded_text(is[field])
  end
  return task
end

local function alive(server)
  return redis.call('EXISTS', P .. 'lease:' .. server) == 1
end

-- Returns the slot at the head of a queue, skipping those of dead servers.
local function head(queue)
  local list = P .. 'queue:' .. queue
  while true do
    local place = redis.call('LINDEX', list, 0)
    if not place then
      return nil
    end
    local server = string.match(place, '^[^/]+')
    if server and alive(server) then
      return place, server
    end
    redis.call('LREM', list, 0, place)
    if server then
      redis.call('HDEL', P .. 'places:' .. server, place)
    end
  end
end

local function wake(queue)
  local place, server = head(queue)
  if place then
    redis.call('PUBLISH', C .. 'server:' .. server, 'turn ' .. place)
  end
end

-- Adds to the bytes of a client and of all. `bytes` has a field for every client with a task.
local function charge(owner, more)
  redis.call('SET', P .. 'total', string.format('%.0f', count(redis.call('GET', P .. 'total')) + more))
  if add(P .. 'bytes', owner, more) <= 0 then
    redis.call('HDEL', P .. 'bytes', owner)
  end
end

-- Adds to the bytes of a task, of its client and of all.
local function weigh(id, owner, more)
  add(P .. 'task:' .. id, 'bytes', more)
  charge(owner, more)
end

-- Returns the bytes of the push notification configurations of a task.
local function pushed(id)
  local bytes = 0
  for _, entry in ipairs(redis.call('HVALS', P .. 'push:' .. id)) do
    bytes = bytes + #entry
  end
  return bytes
end

local function settle(id, owner, at)
  redis.call('HSET', P .. 'task:' .. id, 'settled', '1')
  redis.call('ZADD', P .. 'settled', at, id)
  redis.call('ZADD', P .. 'settled:owner:' .. owner, at, id)
end

local function forget(id)
  local key = P .. 'task:' .. id
  if redis.call('EXISTS', key) == 0 then
    return 0
  end
  local was = redis.call('HMGET', key, 'owner', 'context', 'state', 'server', 'bytes')
  for field = 1, 3 do
    was[field] = was[field] or ''
  end
  for _, index in ipairs(indexes(was[1], was[2], was[3])) do
    redis.call('ZREM', index, id)
  end
  redis.call('ZREM', P .. 'settled', id)
  redis.call('ZREM', P .. 'settled:owner:' .. was[1], id)
  weigh(id, was[1], -count(was[5]))
  if was[4] then
    redis.call('SREM', P .. 'running:' .. was[4], id)
  end
  redis.call('DEL', key, P .. 'log:' .. id, P .. 'push:' .. id)
  -- Deletes a context with its last task.
  if redis.call('EXISTS', P .. 'context:' .. was[2]) == 0 then
    redis.call('DEL', P .. 'opened:' .. was[2])
  end
  redis.call('PUBLISH', C .. 'task:' .. id, 'gone')
  return 1
end

local id, revision, at, token = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local state, since, phase, mine = ARGV[8], ARGV[9], ARGV[10], ARGV[11]
local asked, says = ARGV[12], ARGV[13]
-- The record that the last changes of a task result in, with its checksum.
local record, sum = ARGV[14], ARGV[15]
local key = P .. 'task:' .. id
local is = redis.call('HMGET', key, 'revision', 'settled', 'state', 'owner', 'context', 'server', 'token', 'bytes', 'asked')
if not is[1] then
  -- Its subscribers may wait, if Redis lost it.
  redis.call('PUBLISH', C .. 'task:' .. id, 'gone')
  return 'gone'
end
if is[7] == token then
  -- A retry of a call whose response was lost.
  return 'ok'
end
if is[2] then
  return 'settled'
end
-- This server's lease expired, and another one took the task over.
if mine == '1' and is[6] ~= me then
  return 'lost'
end
if is[1] ~= revision then
  return 'conflict'
end
if not (is[3] and is[4] and is[5] and holds(P .. 'log:' .. id, 'list')) then
  return 'damaged'
end
local before = count(is[8])
local bytes, last, published = before, revision, {}
-- The changes are the other arguments.
for i = 16, #ARGV do
  last = string.format('%.0f', tonumber(revision) + i - 15)
  if record == '' then
    local entry = last .. ' ' .. at .. ' ' .. ARGV[i]
    bytes = bytes + #entry
    redis.call('RPUSH', P .. 'log:' .. id, entry)
  end
  published[#published + 1] = last .. ' ' .. ARGV[i]
end
local task = { 'revision', last, 'token', token }
if record ~= '' then
  bytes = #record + pushed(id)
  put(task, 'base', record)
  put(task, 'base_revision', last)
  put(task, 'sum', sum)
end
put(task, 'bytes', string.format('%.0f', bytes))
put(task, 'asked', is[9] and '' or asked)
put(task, 'state', state)
put(task, 'says', says)
if state ~= '' then
  task[#task + 1] = 'since'
  task[#task + 1] = since
end
local runner = phase == 'run' and me
if runner and runner ~= is[6] then
  redis.call('SADD', P .. 'running:' .. me, id)
  put(task, 'server', me)
end
-- From here on the entries count.
redis.call('HSET', key, unpack(task))
if record ~= '' then
  redis.call('DEL', P .. 'log:' .. id)
end
charge(is[4], bytes - before)
if state == '' then
  state = is[3]
elseif says == '' then
  redis.call('HDEL', key, 'says')
end
if state ~= is[3] then
  redis.call('ZREM', P .. 'state:' .. is[3], id)
  redis.call('ZREM', P .. 'state:' .. is[3] .. ':owner:' .. is[4], id)
end
for _, index in ipairs(indexes(is[4], is[5], state)) do
  redis.call('ZADD', index, at, id)
end
if phase ~= '' and is[6] and is[6] ~= runner then
  redis.call('SREM', P .. 'running:' .. is[6], id)
end
if phase ~= '' and not runner then
  redis.call('HDEL', key, 'server', 'cancel')
end
if phase == 'done' then
  settle(id, is[4], at)
end
-- Redis may refuse any of the writes above.
for _, change in ipairs(published) do
  redis.call('PUBLISH', C .. 'task:' .. id, change)
end
return 'ok'

local id, revision, at, token = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local state, since, phase, mine = ARGV[8], ARGV[9], ARGV[10], ARGV[11]
local asked, says = ARGV[12], ARGV[13]
-- The record that the last changes of a task result in, with its checksum.
local record, sum = ARGV[14], ARGV[15]
local key = P .. 'task:' .. id
local is = redis.call('HMGET', key, 'revision', 'settled', 'state', 'owner', 'context', 'server', 'token')
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
local bytes, last, published = 0, revision, {}
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
if record == '' then
  -- From here on the entries count.
  redis.call('HSET', key, 'revision', last, 'token', token)
else
  bytes = #record + pushed(id) - count(redis.call('HGET', key, 'bytes'))
  redis.call('HSET', key, 'revision', last, 'token', token, 'base', record, 'base_revision', last, 'sum', sum)
  redis.call('DEL', P .. 'log:' .. id)
end
weigh(id, is[4], bytes)
if state ~= '' then
  if state ~= is[3] then
    redis.call('ZREM', P .. 'state:' .. is[3], id)
    redis.call('ZREM', P .. 'state:' .. is[3] .. ':owner:' .. is[4], id)
  end
  redis.call('HSET', key, 'state', state, 'since', since)
  redis.call('HDEL', key, 'says')
else
  state = is[3]
end
summary(key, '', asked, says)
for _, index in ipairs(indexes(is[4], is[5], state)) do
  redis.call('ZADD', index, at, id)
end
if phase == 'run' then
  run(id, me)
elseif phase == 'wait' then
  rest(id)
elseif phase == 'done' then
  rest(id)
  settle(id, is[4], at)
end
-- Redis may refuse any of the writes above.
for _, change in ipairs(published) do
  redis.call('PUBLISH', C .. 'task:' .. id, change)
end
return 'ok'

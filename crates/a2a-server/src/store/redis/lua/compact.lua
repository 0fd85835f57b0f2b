local id, from, to, record = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local key = P .. 'task:' .. id
local log = P .. 'log:' .. id
-- Another server may have compacted it meanwhile.
if redis.call('HGET', key, 'base_revision') ~= from or not redis.call('HGET', key, 'owner') then
  return 0
end
local was = redis.call('HMGET', key, 'owner', 'bytes')
local bytes = #record
for _, entry in ipairs(redis.call('LRANGE', log, tonumber(to) - tonumber(from), -1)) do
  bytes = bytes + #entry
end
for _, entry in ipairs(redis.call('HVALS', P .. 'push:' .. id)) do
  bytes = bytes + #entry
end
redis.call('HSET', key, 'base', record, 'base_revision', to)
redis.call('LTRIM', log, tonumber(to) - tonumber(from), -1)
weigh(id, was[1], bytes - count(was[2]))
return 1

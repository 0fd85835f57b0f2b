local id, from, to, record = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local key = P .. 'task:' .. id
local log = P .. 'log:' .. id
-- Another server may have compacted it meanwhile.
if redis.call('HGET', key, 'base_revision') ~= from then
  return 0
end
redis.call('HSET', key, 'base', record, 'base_revision', to)
redis.call('LTRIM', log, tonumber(to) - tonumber(from), -1)
local bytes = #record
for _, entry in ipairs(redis.call('LRANGE', log, 0, -1)) do
  bytes = bytes + #entry
end
for _, entry in ipairs(redis.call('HVALS', P .. 'push:' .. id)) do
  bytes = bytes + #entry
end
local was = redis.call('HMGET', key, 'owner', 'bytes')
weigh(id, was[1], bytes - tonumber(was[2]))
return 1

-- Replaces the record at revision `from` and the first `first` entries of the log by the record at revision `to`, which has
-- the checksum `sum`.
local id, from, to, record, first = ARGV[4], ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8])
local key = P .. 'task:' .. id
local log = P .. 'log:' .. id
-- Another server may have compacted it meanwhile.
if redis.call('HGET', key, 'base_revision') ~= from or not redis.call('HGET', key, 'owner') then
  return 0
end
local was = redis.call('HMGET', key, 'owner', 'bytes')
local bytes = #record + pushed(id)
local later = redis.call('LRANGE', log, first, -1)
for _, entry in ipairs(later) do
  bytes = bytes + #entry
end
redis.call('HSET', key, 'base', record, 'base_revision', to, 'sum', ARGV[9])
redis.call('DEL', log)
for _, entry in ipairs(later) do
  redis.call('RPUSH', log, entry)
end
weigh(id, was[1], bytes - count(was[2]))
return 1

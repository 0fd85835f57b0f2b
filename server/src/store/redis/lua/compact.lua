local id, from, to, record = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local key = P .. 'task:' .. id
-- Somebody else may have done it in the meantime.
if redis.call('HGET', key, 'base_revision') ~= from then
  return 0
end
redis.call('HSET', key, 'base', record, 'base_revision', to)
redis.call('LTRIM', P .. 'log:' .. id, tonumber(to) - tonumber(from), -1)
return 1

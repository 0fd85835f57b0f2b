local key = P .. 'task:' .. ARGV[4]
local is = redis.call('HMGET', key, 'base', 'base_revision', 'owner')
if not is[1] then
  return {}
end
return { is[1], is[2] or '', is[3] or '', redis.call('LRANGE', P .. 'log:' .. ARGV[4], 0, -1) }

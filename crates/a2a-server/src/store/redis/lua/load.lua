local key = P .. 'task:' .. ARGV[4]
-- A value of another program may be larger than this server can hold.
local spare = count(redis.call('HGET', key, 'bytes')) + 2 ^ 24 - redis.call('HSTRLEN', key, 'base')
if spare < 0 then
  return 'damaged'
end
local is = redis.call('HMGET', key, 'base', 'base_revision', 'owner', 'revision', 'settled', 'sum')
if not is[1] then
  return {}
end
local log = redis.call('LRANGE', P .. 'log:' .. ARGV[4], 0, -1)
for _, entry in ipairs(log) do
  spare = spare - #entry
end
if spare < 0 then
  return 'damaged'
end
return { is[1], is[2] or '', is[3] or '', is[4] or '', log, is[5] or '', is[6] or '' }

local key, owner, session, spare = P .. 'opened:' .. ARGV[4], ARGV[5], ARGV[6], ARGV[7]
if redis.call('EXISTS', key) == 0 then
  redis.call('HSET', key, 'owner', owner, 'session', session)
  -- Until the context has a task.
  redis.call('PEXPIRE', key, spare)
end
local is = redis.call('HMGET', key, 'owner', 'session')
for field = 1, 2 do
  is[field] = is[field] or ''
  if bounded_text(is[field]) ~= is[field] then
    return too_large()
  end
end
return is

local key, owner, session, spare = P .. 'opened:' .. ARGV[4], ARGV[5], ARGV[6], ARGV[7]
if redis.call('EXISTS', key) == 0 then
  redis.call('HSET', key, 'owner', owner, 'session', session)
  -- Until the context has a task.
  redis.call('PEXPIRE', key, spare)
end
local is = redis.call('HMGET', key, 'owner', 'session')
return { short(is[1]), short(is[2]) }

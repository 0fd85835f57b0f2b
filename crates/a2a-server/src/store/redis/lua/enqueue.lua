-- Adds a slot unless it is there, and returns whether it has the turn.
local queue, place, lease = ARGV[4], ARGV[5], ARGV[6]
redis.call('SET', P .. 'lease:' .. me, '1', 'PX', lease)
local list = P .. 'queue:' .. queue
if not redis.call('LPOS', list, place) then
  local length = redis.call('RPUSH', list, place)
  redis.call('HSET', P .. 'places:' .. me, place, queue)
  redis.call('SADD', P .. 'servers', me)
  if length == 1 then
    return 1
  end
end
return head(queue) == place and 1 or 0

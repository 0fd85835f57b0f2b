-- Takes over at most `most` tasks of dead servers. Returns the taken tasks that were not handed out yet, and those of
-- them that the dead server was asked to cancel.
local lease, most = ARGV[4], tonumber(ARGV[5])
redis.call('SET', P .. 'lease:' .. me, '1', 'PX', lease)
redis.call('SADD', P .. 'servers', me)
for _, server in ipairs(redis.call('SMEMBERS', P .. 'servers')) do
  if not holds(P .. 'running:' .. server, 'set') or not holds(P .. 'places:' .. server, 'hash') then
    redis.call('SREM', P .. 'servers', server)
  elseif server ~= me and most > 0 and not alive(server) then
    local taken = redis.call('SPOP', P .. 'running:' .. server, most)
    for _, id in ipairs(taken) do
      most = most - 1
      local key = P .. 'task:' .. id
      if redis.call('TYPE', key)['ok'] == 'hash' then
        redis.call('HSET', key, 'server', me)
        redis.call('SADD', P .. 'running:' .. me, id)
        redis.call('SADD', P .. 'claims:' .. me, id)
      end
    end
    if redis.call('EXISTS', P .. 'running:' .. server) == 0 then
      local places = redis.call('HGETALL', P .. 'places:' .. server)
      for i = 1, #places, 2 do
        redis.call('LREM', P .. 'queue:' .. places[i + 1], 0, places[i])
        wake(places[i + 1])
      end
      redis.call('DEL', P .. 'places:' .. server, P .. 'claims:' .. server, P .. 'cancels:' .. server)
      redis.call('SREM', P .. 'servers', server)
    end
  end
end
local claims, canceled = {}, {}
for _, id in ipairs(redis.call('SMEMBERS', P .. 'claims:' .. me)) do
  if bounded_text(id) == id then
    claims[#claims + 1] = id
    if redis.pcall('HEXISTS', P .. 'task:' .. id, 'cancel') == 1 then
      canceled[#canceled + 1] = id
    end
  end
end
return { claims, canceled }

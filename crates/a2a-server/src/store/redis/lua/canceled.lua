-- Returns the first cancel requests for this server.
local key = P .. 'cancels:' .. me
local found, read = {}, nil
repeat
  read = redis.call('LRANGE', key, 0, ARGV[4] - 1)
  for _, id in ipairs(read) do
    if bounded_text(id) == id then
      found[#found + 1] = id
    else
      redis.call('LREM', key, 0, id)
    end
  end
until #found > 0 or #read == 0
return found

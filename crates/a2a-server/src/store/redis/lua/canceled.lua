-- Returns the first cancel requests for this server.
local key = P .. 'cancels:' .. me
local found = {}
for _, id in ipairs(redis.call('LRANGE', key, 0, ARGV[4] - 1)) do
  if short(id) == id then
    found[#found + 1] = id
  else
    redis.call('LREM', key, 0, id)
  end
end
return found

-- Returns the tasks of a state that last changed before a time, the oldest first, each with the time of that change.
local state, before, most = ARGV[4], ARGV[5], ARGV[6]
local found = redis.call('ZRANGEBYSCORE', P .. 'state:' .. state, '-inf', '(' .. before, 'WITHSCORES', 'LIMIT', 0, most)
for i = 1, #found, 2 do
  found[i] = short(found[i])
end
return found

-- Returns the tasks of a state that last changed before a time, the oldest first, each with the time of that change.
local state, before, most = ARGV[4], ARGV[5], ARGV[6]
local index, tasks = P .. 'state:' .. state, {}
local found = redis.call('ZRANGEBYSCORE', index, '-inf', '(' .. before, 'WITHSCORES', 'LIMIT', 0, most)
for i = 1, #found, 2 do
  local id, at = found[i], found[i + 1]
  if bounded_text(id) == id then
    tasks[#tasks + 1] = id
    tasks[#tasks + 1] = at
  else
    redis.pcall('ZREM', index, id)
  end
end
return tasks

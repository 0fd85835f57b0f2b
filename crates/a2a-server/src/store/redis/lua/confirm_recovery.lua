for i = 4, #ARGV do
  redis.call('SREM', P .. 'claims:' .. me, ARGV[i])
end
return 'ok'

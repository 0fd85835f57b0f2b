redis.call('SET', P .. 'lease:' .. me, '1', 'PX', ARGV[4])
redis.call('SADD', P .. 'servers', me)
return 'ok'

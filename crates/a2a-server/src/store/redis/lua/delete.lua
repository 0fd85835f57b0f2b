return forget(ARGV[4])

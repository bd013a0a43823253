# The server and all of its processes end with this one's standard input, so with whoever started
# it, whichever way that ends; and this one ends with the server.
trap : TERM
(trap : TERM; "$@" < /dev/null; kill -s KILL -- -$$) &
cat > /dev/null
kill -s TERM -- -$$
sleep 20
kill -s KILL -- -$$

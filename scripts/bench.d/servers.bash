# shellcheck shell=bash
# The servers that a bench or a demo talks to. To be sourced; who does has the folder $work and the
# list $servers, whose processes it ends. With $apart=setsid a Ctrl-C does not reach them.

# free_ports N: so many ports of this machine where nobody listens. They are below those that the
# system gives to connections, one of which would take it before the server does.
free_ports() {
  python3 -c 'import random, socket, sys
held = []
while len(held) < int(sys.argv[1]):
    try:
        held.append(socket.create_server(("127.0.0.1", random.randrange(18000, 32000))))
    except OSError:
        pass
print(*(one.getsockname()[1] for one in held))' "$1"
}

# serve NAME URL COMMAND…: starts a server, waits until it answers; its process is in $served
serve() {
  local name=$1 url=$2
  shift 2
  ${apart:-} "$@" >"$work/$name.log" 2>&1 &
  served=$!
  servers+=("$served")
  until curl -sk -o "$work/answer" "$url"; do
    kill -0 "$served" 2>/dev/null || { cat "$work/$name.log" >&2; exit 1; }
    sleep 0.05
  done
}

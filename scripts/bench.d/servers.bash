# shellcheck shell=bash
# The servers that a bench or a demo talks to. To be sourced; who does has the folder $work and the
# list $servers, whose processes it ends. With $apart=setsid a Ctrl-C does not reach them.

# free_ports N: so many ports of this machine where nobody listens
free_ports() {
  python3 -c 'import socket, sys
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
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

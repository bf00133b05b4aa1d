# shellcheck shell=bash
# The table that the benches print, and the arithmetic on what was measured. To be sourced.

# 1 as soon as a promise was not kept, read by who sources this
# shellcheck disable=SC2034
broken=0
row() { printf '%-58s %12s %14s  %s\n' "$@"; }
head_of_table() {
  row "figure" "measured" "promise" ""
  row "------" "--------" "-------" ""
}
# promise NAME FIGURE RELATION LIMIT: a row, and whether the figure keeps to the limit
promise() {
  local verdict=kept
  awk -v a="$2" -v b="$4" "BEGIN{exit !(a $3 b)}" || { verdict=BROKEN; broken=1; }
  row "$1" "$2" "$3 $4" "$verdict"
}
now() { printf '%s' "$EPOCHREALTIME"; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN{printf "%.3f", b-a}'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN{printf "%.2f", a/b}'; }
median() { sort -n | awk '{v[NR]=$1} END{print v[int((NR+1)/2)]}'; }

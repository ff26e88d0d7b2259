# What a file or directory under build/evidence/ was made from, noted beside it: to be sourced.

# made_from FILE…: a hash of what they hold.
made_from() { cat "$@" | sha256sum | cut -d' ' -f1; }
# is_made PATH HASH: whether it is there, made from that.
is_made() { [[ -e $1 && $(cat "$1.made-from" 2>/dev/null) == "$2" ]]; }
# note_made PATH HASH
note_made() { echo "$2" >"$1.made-from"; }

#!/usr/bin/env bash
# Installs the Debian packages that some tests need, where that can be done without asking:
# those of the list given, or of debian-packages.txt.
# Where it cannot, the tests that need one skip, name it, and are counted in the run's last line.
set -eu

list="${1:-$(dirname "$0")/debian-packages.txt}"
command -v dpkg-query >/dev/null || exit 0

missing=()
while read -r package; do
    state="$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)"
    [[ $state == ii* ]] || missing+=("$package")
done <"$list"
((${#missing[@]})) || exit 0

if [[ $(id -u) != 0 ]]; then
    echo "some tests will skip; to run them: apt-get install ${missing[*]}" >&2
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# A package that installs a service must not start it: tests run their own.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
fi
{
    apt-get update -qq && apt-get install -qq --no-install-recommends "${missing[@]}"
} >/dev/null || echo "some tests will skip: apt-get could not install ${missing[*]}" >&2

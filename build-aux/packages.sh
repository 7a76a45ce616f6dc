# Installs the Debian packages that ./quickstart and ./check need. Both source this file.
#
#	lb_install_packages SET...	SET is build, broker, test, all (what only ./check --all needs) or compare (for
#					make bench-table)
#
# If all packages are installed, this does nothing and needs no privilege.
# No installation starts a server: the tests and the benchmarks start private ones.

lb_packages_build='build-essential autoconf automake libtool pkg-config librabbitmq-dev libevent-dev libcjson-dev
	libinih-dev libsystemd-dev libssl-dev libncurses-dev libmicrohttpd-dev uthash-dev python3'
lb_packages_broker='rabbitmq-server'
lb_packages_test='check clang-format shellcheck openssl systemd socat mandoc procps git python3-pyte zsh curl'
lb_packages_all='python3-pika iproute2 nftables libfaketime mypy python3-pip python3-setuptools python3-wheel prometheus
	python3-prometheus-client ansible-core debootstrap'
lb_packages_compare='redis-server libhiredis-dev etcd-server libgrpc-dev gnuplot-nox'

lb_missing_packages() {
	for lb_package in "$@"; do
		case $(dpkg-query -W -f '${db:Status-Abbrev}' "$lb_package" 2>/dev/null) in
		ii*) ;;
		*) printf '%s ' "$lb_package" ;;
		esac
	done
}

# lb_apt COMMAND...: as root, or through sudo.
lb_apt() {
	if [ "$(id -u)" -eq 0 ]; then
		env DEBIAN_FRONTEND=noninteractive "$@"
	elif command -v sudo >/dev/null 2>&1; then
		sudo env DEBIAN_FRONTEND=noninteractive "$@"
	else
		echo "this needs root or sudo; as root, run: apt-get install $lb_missing" >&2
		return 1
	fi
}

lb_install_packages() {
	lb_wanted=
	for lb_set in "$@"; do
		case $lb_set in
		build) lb_wanted="$lb_wanted $lb_packages_build" ;;
		broker) lb_wanted="$lb_wanted $lb_packages_broker" ;;
		test) lb_wanted="$lb_wanted $lb_packages_test" ;;
		all) lb_wanted="$lb_wanted $lb_packages_all" ;;
		compare) lb_wanted="$lb_wanted $lb_packages_compare" ;;
		esac
	done
	# shellcheck disable=SC2086 # a list of words
	lb_missing=$(lb_missing_packages $lb_wanted)
	[ -n "$lb_missing" ] || return 0
	if ! command -v apt-get >/dev/null 2>&1; then
		echo "this needs Debian's packages: $lb_missing" >&2
		return 1
	fi
	echo "installing with apt-get: $lb_missing"
	lb_policy=
	if [ ! -e /usr/sbin/policy-rc.d ]; then
		# With this file, Debian's invoke-rc.d does not start services while it installs them.
		lb_policy=/usr/sbin/policy-rc.d
		lb_apt sh -c 'printf "#!/bin/sh\ncase \$1 in rabbitmq-server|redis-server|etcd|prometheus) exit 101 ;; esac\n" >"$1" && chmod 755 "$1"' \
			sh "$lb_policy" || return 1
	fi
	# shellcheck disable=SC2086 # a list of words
	{ lb_apt apt-get update -q && lb_apt apt-get install -q -y --no-install-recommends $lb_missing; } >&2
	lb_status=$?
	[ -z "$lb_policy" ] || lb_apt rm -f "$lb_policy"
	return $lb_status
}

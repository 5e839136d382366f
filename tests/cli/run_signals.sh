# SPDX-License-Identifier: BSD-3-Clause
# Signals reach the command; one that asks to stop ends the run without a relaunch. (USR1, and TERM to a job: run_ask.sh.)
. "$KEDGE_SOURCE/tests/cli/run_lib.sh"

# Open for reading and writing: nobody waits for the other end, and nothing that is written gets lost.
mkfifo ready
exec 3<>ready

# In Perl, because a shell may lose a signal that comes while it starts a child. Signals come in only while it waits for
# them, and are noted one after the other: the note of one must not be cut off by the next.
cat >job <<'END'
#!/usr/bin/perl
use strict;
use POSIX qw(:signal_h);

sub note {
	my ($file, $text) = @_;
	open(my $out, '>>', $file) or die;
	print $out "$text\n";
	close($out) or die;
}

my $stop = $ARGV[0];
my @came;
sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGUSR1, SIGUSR2, SIGTERM, SIGHUP, SIGINT));
for my $signal ('USR2', $stop) {
	$SIG{$signal} = sub { push @came, $signal };
}
note('launches', $ENV{KEDGE_RUN_LAUNCH});
note('ready', 'ready');
while (1) {
	while (my $signal = shift @came) {
		note('seen', $signal);
		note('ready', 'again') if $signal eq 'USR2';
		exit 5 if $signal eq $stop;
	}
	sigsuspend(POSIX::SigSet->new());
}
END
chmod +x job
[ -x /usr/bin/perl ] || exit 77

for signal in TERM HUP INT; do
	rm -f seen launches
	# A shell without job control starts background commands with SIGINT ignored.
	env --default-signal=INT "$KEDGE_BIN" run --backoff 0 -- ./job $signal >out 2>err &
	pid=$!
	read -r _ <&3
	kill -USR2 $pid
	read -r _ <&3
	kill -$signal $pid
	code=0
	wait $pid || code=$?
	case $signal in
	HUP) wants_code 129 ;;
	INT) wants_code 130 ;;
	TERM) wants_code 143 ;;
	esac
	wants seen USR2
	wants seen $signal
	wants err 'stopped by signal'
	[ "$(cat launches)" = 1 ] || die "launched again after $signal"
done
no_journal_left

# What is ignored stays ignored: nohup.
rm -f seen
env --ignore-signal=HUP "$KEDGE_BIN" run --backoff 0 -- ./job TERM >out 2>err &
pid=$!
read -r _ <&3
kill -HUP $pid
kill -USR2 $pid
read -r _ <&3
kill -TERM $pid
code=0
wait $pid || code=$?
wants_code 143
wants seen TERM

# A signal between two launches ends the run too. The pause is an hour: only the signal can end it.
cat >dies <<'END'
#!/bin/sh
echo 1 >>launches
echo '{"time":1,"event":"sealed","name":"job","version":1}' >>"$KEDGE_RUN_JOURNAL"
exit 1
END
chmod +x dies
rm -f launches
mkfifo messages
"$KEDGE_BIN" run --backoff 3600 -- ./dies >out 2>messages &
pid=$!
exec 4<messages
read -r line <&4
case $line in
*relaunching*) ;;
*) die "no relaunch announced: $line" ;;
esac
kill -TERM $pid
code=0
wait $pid || code=$?
cat <&4 >err
wants_code 143
[ "$(cat launches)" = 1 ] || die "launched again"

# SPDX-License-Identifier: BSD-3-Clause
# Real programs that know nothing of checkpoints: each is captured while it waits for input, killed, restarted, and ends with
# the answer of a run that nobody disturbed. What this machine lacks is passed over by name. Programs that take long to
# compile are tried if $PROCESS_TEST_MOMENTS is set.
. "$KEDGE_SOURCE/tests/cli/run_lib.sh"
tried=0

await() { # CONDITION...
	while ! eval "$@" 2>/dev/null; do
		kill -0 $run || die "$name ended too early"
		sleep 0.02
	done
}

# The program says "half" in the middle, reads a line, and goes on; what it reads before is in the file input.
try() { # NAME COMMAND...
	name=$1
	shift
	[ -e input ] || : >input
	{ cat input; echo go; [ ! -e input.more ] || cat input.more; } | "$@" >whole || die "$name"
	mkfifo line
	"$KEDGE_BIN" run --backoff 0 --transparent --interval 1000000 -s store -n "$name" -- "$@" <line >printed 2>err &
	run=$!
	exec 3>line
	cat input >&3
	await 'grep -q half printed'
	"$KEDGE_BIN" checkpoint-now --wait 600 -s store -n "$name" >said 2>&1 || die "$name was not captured: $(cat said)"
	kill -KILL "$(cut -d ' ' -f 2 "store/$name/running")"
	await 'grep -q "restarted from version 1" err'
	{ echo go; [ ! -e input.more ] || cat input.more; } >&3
	exec 3>&-
	code=0
	wait $run || code=$?
	wants_code 0
	cmp whole printed || die "$name has another answer"
	rm -f line input input.more
	tried=$((tried + 1))
}

lacks() { # WHAT
	echo "passed over: $1"
}

python=/usr/bin/python3
if $python -c 'import numpy' 2>/dev/null; then
	cat >matrix.py <<-'END'
		import numpy, sys
		a = numpy.random.default_rng(7).random((120, 120))
		for i in range(40):
		    a = a @ a
		    a /= abs(a).max()
		    a += numpy.sin(a * i)
		    if i == 20:
		        print("half", flush=True)
		        sys.stdin.readline()
		print(repr(a.sum()), sorted({str(x): x for x in a[0][:5]}.items()))
	END
	try numpy $python matrix.py
else
	lacks "python3 with numpy"
fi

if command -v sqlite3 >/dev/null; then
	cat >input <<-'END'
		CREATE TABLE t(x INTEGER PRIMARY KEY, y);
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) INSERT INTO t SELECT i, i * i % 977 FROM n;
		SELECT 'half';
	END
	cat >input.more <<-'END'
		;
		DELETE FROM t WHERE y % 7 = 3;
		SELECT count(*), sum(x * y) FROM t;
	END
	# The line "go" becomes the alias of a column.
	printf 'SELECT 1\n' >>input
	try sqlite sqlite3 :memory:
else
	lacks sqlite3
fi

if ${CC:-cc} -fopenmp -x c -o parallel - 2>/dev/null <<-'END'; then
	#include <stdio.h>
	static double a[20000];
	int main(void)
	{
		double sum = 0;
		char line[64];
		for (int i = 0; i < 40; i++) {
	#pragma omp parallel for
			for (int k = 0; k < 20000; k++)
				a[k] = a[k] * 0.99 + k * 1e-3 + i;
			if (i == 20) {
				printf("half\n");
				fflush(stdout);
				if (!fgets(line, sizeof(line), stdin))
					return 1;
			}
			sum = sum * 0.5 + a[i * 7];
		}
		printf("%.17g\n", sum);
		return 0;
	}
END
	try openmp env OMP_NUM_THREADS=3 OMP_WAIT_POLICY=passive ./parallel
else
	lacks OpenMP
fi

cat >big.f90 <<'END'
program big
  real(8), save :: a(400000000)
  integer :: i
  character(8) :: line
  do i = 1, 400000
    a(i * 999) = i * 0.5d0
  end do
  print *, 'half'
  flush(6)
  read *, line
  print *, sum(a(1:399600000:999)), a(999)
end program
END
sed -i 's/400000$/20000/' big.f90
if gfortran -no-pie -mcmodel=medium -o big big.f90 2>/dev/null; then
	try fortran ./big
else
	lacks "a Fortran compiler"
fi

if [ -z "${PROCESS_TEST_MOMENTS:-}" ]; then
	:
elif command -v go >/dev/null; then
	cat >many.go <<-'END'
		package main

		import (
			"bufio"
			"fmt"
			"os"
			"sync"
		)

		func part(g int, out []uint64, wg *sync.WaitGroup) {
			x := out[g] + uint64(g) + 1
			for i := 0; i < 300000; i++ {
				x ^= x << 13
				x ^= x >> 7
				x ^= x << 17
			}
			out[g] = x
			wg.Done()
		}

		func main() {
			out := make([]uint64, 6)
			for half := 0; half < 2; half++ {
				var wg sync.WaitGroup
				wg.Add(6)
				for g := range out {
					go part(g, out, &wg)
				}
				wg.Wait()
				if half == 0 {
					fmt.Println("half")
					bufio.NewReader(os.Stdin).ReadString('\n')
				}
			}
			fmt.Println(out)
		}
	END
	GOCACHE=$PWD/cache GOFLAGS=-modcacherw GO111MODULE=off go build -o many many.go
	try go ./many
else
	lacks go
fi

[ "$tried" -gt 0 ] || exit 77

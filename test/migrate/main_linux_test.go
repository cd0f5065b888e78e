package migrate_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/test/sandbox"
)

func TestMain(m *testing.M) {
	if status, done := sandbox.Enter(); done {
		os.Exit(status)
	}
	goleak.VerifyTestMain(m)
}

package setup

import (
	"context"
	"fmt"
	"os"
)

// ReadFile gives a function that reads the configuration file. The file may be a pipe, whose writer may never come, so the
// wait ends with ctx. The read itself then goes on until the process ends.
func ReadFile(ctx context.Context) func(path string) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	return func(path string) ([]byte, error) {
		done := make(chan result, 1)
		go func() {
			data, err := os.ReadFile(path)
			done <- result{data, err}
		}()
		select {
		case r := <-done:
			return r.data, r.err
		case <-ctx.Done():
			return nil, fmt.Errorf("read %q: %w", path, context.Cause(ctx))
		}
	}
}

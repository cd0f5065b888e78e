package config

import (
	"context"
	"fmt"
	"os"
)

// ReadFile returns a function that reads the configuration file. The file may be a pipe without a writer, so the function returns
// when ctx ends; the read itself then continues until the process ends.
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

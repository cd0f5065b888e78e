package bench

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"
)

// BenchmarkCalibration is work that has nothing to do with this project. tools/benchguard compares the other benchmarks with it.
func BenchmarkCalibration(b *testing.B) {
	type object struct {
		Name   string
		Labels map[string]string
		Ports  []int
	}
	var objects []object
	for i := range 20_000 {
		objects = append(objects, object{fmt.Sprintf("object-%d", i), map[string]string{"app": fmt.Sprint("app-", i%97), "team": fmt.Sprint(i % 31)}, []int{i, i + 1}})
	}
	text, err := json.Marshal(objects)
	if err != nil {
		b.Fatal(err)
	}
	before := ownCPU(b)
	for b.Loop() {
		var read []object
		if err := json.Unmarshal(text, &read); err != nil {
			b.Fatal(err)
		}
		hash := sha256.New()
		zip := gzip.NewWriter(hash)
		if _, err := io.Copy(zip, bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
		zip.Close()
	}
	b.ReportMetric(float64((ownCPU(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

// ownCPU returns the processor time of this process.
func ownCPU(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

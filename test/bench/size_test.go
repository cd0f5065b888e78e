package bench

import (
	"net/http"
	"strconv"
	"testing"
)

// BenchmarkTableSize is not a benchmark: it reports the size of the table.
func BenchmarkTableSize(b *testing.B) {
	p := start(b, buildBinary(b), newAPI(b), 60_000)
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	for b.Loop() {
		for _, encoding := range []string{"identity", "gzip", "zstd"} {
			r, err := http.NewRequest(http.MethodHead, "http://"+p.main+"/routes", nil)
			if err != nil {
				b.Fatal(err)
			}
			r.Header.Set("Accept-Encoding", encoding)
			resp, err := client.Do(r)
			if err != nil {
				b.Fatal(err)
			}
			resp.Body.Close()
			routes, err := strconv.Atoi(resp.Header.Get("X-Count"))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(resp.ContentLength)/1e6, encoding+"-MB")
			b.ReportMetric(float64(routes), "routes")
		}
	}
}

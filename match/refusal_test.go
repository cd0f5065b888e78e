package match_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/match"
)

// FuzzRefusalsAgree: the code that turns predicates into conditions and the code that only checks them refuse the same routes for
// the same reason.
func FuzzRefusalsAgree(f *testing.F) {
	for seed := range uint64(800) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		text := "r: " + randomPredicate(rnd)
		for range rnd.IntN(3) {
			text += " && " + randomPredicate(rnd)
		}
		routes, err := eskip.Parse(text + " -> <shunt>;")
		if err != nil {
			return // two methods, for example
		}
		_, refusals := match.New(routes, match.Options{})
		var want match.Reason
		if len(refusals) > 0 && refusals[0].Reason != match.Dead {
			want = refusals[0].Reason
		}
		got, wrong := catalogue.New(catalogue.Options{}).Check(routes[0])
		if got != want || (wrong != nil) != (got != "") {
			t.Fatalf("%s: %q (%v), want %q: %+v", text, got, wrong, want, refusals)
		}
	})
}

func randomPredicate(rnd *rand.Rand) string {
	pick := func(all ...string) string { return all[rnd.IntN(len(all))] }
	name := pick("True", "False", "Shutdown", "HostAny", "Methods", "Cookie", "QueryParam", "Source", "SourceFromLast", "ClientIP",
		"Traffic", "TrafficSegment", "Before", "After", "Between", "Cron", "JWTPayloadAnyKV", "JWTPayloadAllKVRegexp", "HeaderSHA256",
		"ForwardedHost", "ForwardedProtocol", "ContentLengthBetween", "OTelBaggage", "Tee", "Weight", "Path", "PathSubtree", "Host",
		"PathRegexp", "HeaderRegexp", "Nothing")
	args := make([]string, rnd.IntN(4))
	for i := range args {
		args[i] = pick(`""`, `"a"`, `"/a"`, `"/:b/*c"`, `"/*c/d"`, `"/*c/"`, `"/*c/.."`, `"("`, `"http"`, `"get"`, `"10.0.0.0/8"`, `"::"`, `"0.0.0.0"`, "0", "1", "0.5", "-1",
			"1.5", `"2021-02-18T00:00:00"`, `"2021-02-18T00:00:00Z"`, `"2022-02-18T00:00:00Z"`, `"UTC"`, `"* * * * *"`, `"1-70 * * * *"`,
			`"`+strings.Repeat("ab", 32)+`"`)
	}
	return fmt.Sprintf("%s(%s)", name, strings.Join(args, ", "))
}

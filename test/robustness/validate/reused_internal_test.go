package validate

import "testing"

func TestOnlyAddressesOfOthersMayBeMissing(t *testing.T) {
	const head = `a: Path("/a") -> setPath("/b") -> `
	const zones4 = `<roundRobin, "http://10.2.0.2:80?zone=a", "http://10.2.0.4:80?zone=a", "http://10.2.0.5:80?zone=a", "http://10.2.0.6:80?zone=a", "http://10.2.0.7:80?zone=b">`
	taken := map[string]bool{"10.2.0.2": true, "10.2.0.3": true}
	for _, c := range []struct {
		text, whole string
		want        bool
	}{
		{`<roundRobin, "http://10.2.0.1:80">`, `<roundRobin, "http://10.2.0.1:80", "http://10.2.0.2:80">`, true},
		{`"http://10.2.0.1:80"`, `<roundRobin, "http://10.2.0.1:80", "http://10.2.0.2:80", "http://10.2.0.3:80">`, true},
		{`<roundRobin, "http://10.2.0.1:80?zone=a">`, `<roundRobin, "http://10.2.0.1:80?zone=a", "http://10.2.0.2:80?zone=b">`, true},
		{`<roundRobin, "http://10.2.0.2:80">`, `<roundRobin, "http://10.2.0.1:80", "http://10.2.0.2:80">`, false}, // nobody has the one that is missing
		{`<roundRobin, "http://10.2.0.9:80">`, `<roundRobin, "http://10.2.0.2:80", "http://10.2.0.3:80">`, false}, // one that it never had
		{`<roundRobin, "http://10.2.0.1:80", "http://10.2.0.2:80">`, `<roundRobin, "http://10.2.0.1:80", "http://10.2.0.2:80">`, false},
		{`"http://10.2.0.1:80"`, `<roundRobin, "http://10.2.0.1:80?zone=a", "http://10.2.0.2:80?zone=b">`, true}, // one endpoint has no zone
		// The address of another is one of four of the zone, which is served alone, or of three, so that all zones are.
		{`<roundRobin, "http://10.2.0.4:80?zone=a", "http://10.2.0.5:80?zone=a", "http://10.2.0.6:80?zone=a">`, zones4, true},
		{`<roundRobin, "http://10.2.0.4:80?zone=a", "http://10.2.0.5:80?zone=a", "http://10.2.0.7:80?zone=b">`,
			`<roundRobin, "http://10.2.0.2:80?zone=a", "http://10.2.0.4:80?zone=a", "http://10.2.0.5:80?zone=a", "http://10.2.0.7:80?zone=b">`, true},
		{`<roundRobin, "http://10.2.0.4:80?zone=a", "http://10.2.0.5:80?zone=a">`,
			`<roundRobin, "http://10.2.0.2:80?zone=a", "http://10.2.0.4:80?zone=a", "http://10.2.0.5:80?zone=a", "http://10.2.0.7:80?zone=b">`, false},
		{`<shunt>`, `<roundRobin, "http://10.2.0.2:80", "http://10.2.0.3:80">`, false},
	} {
		if got := fewerEndpoints(head+c.text, head+c.whole, taken, "a"); got != c.want {
			t.Errorf("%s of %s: %v", c.text, c.whole, got)
		}
	}
	if fewerEndpoints(`a: Path("/x") -> "http://10.2.0.1:80"`, `a: Path("/a") -> <"http://10.2.0.1:80", "http://10.2.0.2:80">`, taken, "a") {
		t.Error("another path passes")
	}
}

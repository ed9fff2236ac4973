package audit

import (
	"slices"
	"strings"
	"testing"
)

// secrets are written in two halves, so that no scanner of this repository takes
// them for real ones. They are not.
var redactions = []struct{ name, text, want string }{
	// Shapes.
	{"GitHub", `git push https://x` + `@h ghp_` + `0123456789abcdefghijABCDEFGHIJ012345`, `git push https://x@h [redacted]`},
	{"GitHub fine", `use github_pat_` + `11ABCDEFG0123456789_abcdefghij`, `use [redacted]`},
	{"GitLab", `curl -d glpat-` + `abcdefghij0123456789 x`, `curl -d [redacted] x`},
	{"AWS id", `aws configure set k AKIA` + `ABCDEFGHIJ234567`, `aws configure set k [redacted]`},
	{"Slack", `notify xoxb-` + `123456789012-abcdefghijkl`, `notify [redacted]`},
	{"Slack hook", `curl https://hooks.slack.com/services/` + `T000/B000/XXXX -d hi`, `curl https://hooks.slack.com/services/[redacted] -d hi`},
	{"OpenAI style", `run sk-` + `proj-abcdefghij0123456789`, `run [redacted]`},
	{"Stripe", `stripe sk_live_` + `abcdefghij0123`, `stripe [redacted]`},
	{"Google", `x AIza` + `SyA0123456789abcdefghijklmnopqrstuvwx`, `x [redacted]`},
	{"npm", `echo npm_` + `abcdefghijklmnopqrstuvwxyz0123456789`, `echo [redacted]`},
	{"PyPI", `twine pypi-` + `AgEIcHlwaS5vcmcabcdef0123`, `twine [redacted]`},
	{"HF", `hf hf_` + `abcdefghijklmnopqrstuvwx`, `hf [redacted]`},
	{"JWT", `x eyJ` + `hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0.abc-def_123`, `x [redacted]`},
	{"PEM", "echo '-----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n-----END RSA PRIVATE KEY-----' done", "echo '[redacted]' done"},
	{"PEM cut", "x -----BEGIN PRIVATE KEY-----\nabc\ndef", "x [redacted]"},
	{"Vault", `vault login hvs.` + `CAESIabcdefghij0123456789`, `vault login [redacted]`},

	// URLs.
	{"URL", `psql postgres://bob:hunter2@db/x`, `psql postgres://bob:[redacted]@db/x`},
	{"URL with @", `psql postgres://bob:hun@ter2@db/x`, `psql postgres://bob:[redacted]@db/x`},
	{"URL without user", `redis-cli -u redis://:hunter2@db:6379`, `redis-cli -u redis://:[redacted]@db:6379`},
	{"URL token", `git clone https://abcdefghij0123456789abcd@example.com/r`, `git clone https://[redacted]@example.com/r`},
	{"URL of a person", `git clone ssh://git@example.com:22/r`, ``},
	{"URL with port and @", `curl http://localhost:8080/@vite/client`, ``},
	{"URL query", `curl 'https://h/p?a=1&access_token=hunter2&b=2'`, `curl 'https://h/p?a=1&access_token=[redacted]&b=2'`},

	// Headers.
	{"bearer header", `curl -H 'Authorization: Bearer hunter2' h`, `curl -H 'Authorization: [redacted]' h`},
	{"basic header", `curl -H "authorization: Basic Ym9iOnB3" h`, `curl -H "authorization: [redacted]" h`},
	{"own header", `curl -H "X-Api-Key: hunter2" h`, `curl -H "X-Api-Key: [redacted]" h`},
	{"cookie", `curl -H 'Cookie: a=1; session=2' h`, `curl -H 'Cookie: [redacted]' h`},
	{"GitLab header", `curl --header "PRIVATE-TOKEN: hunter2" h`, `curl --header "PRIVATE-TOKEN: [redacted]" h`},
	{"bearer alone", `http h "bearer abc123def456"`, `http h "bearer [redacted]"`},
	{"other header", `curl -H "X-Request-Id: 77" h`, ``},

	// Arguments of programs.
	{"curl -u", `curl -s -u bob:hunter2 https://h`, `curl -s -u bob:[redacted] https://h`},
	{"curl --user quoted", `curl --user 'bob:hunter2' https://h`, `curl --user 'bob:[redacted]' https://h`},
	{"docker -u", `docker run -u 1000:1000 alpine`, ``},
	{"mysql", `mysql -u root -phunter2 db`, `mysql -u root -p[redacted] db`},
	{"mysql asks", `mysql -u root -p db`, ``},
	{"sshpass", `sshpass -p 'hunter 2' ssh h`, `sshpass -p '[redacted]' ssh h`},
	{"docker login", `docker login -u bob -p hunter2 reg`, `docker login -u bob -p [redacted] reg`},
	{"password on stdin", `echo hunter2 | docker login -u bob --password-stdin`, `echo [redacted] | docker login -u bob --password-stdin`},
	{"sudo -S", `echo "hunter2" | sudo -S make install`, `echo "[redacted]" | sudo -S make install`},
	{"gh with token", `echo hunter2 | gh auth login --with-token`, `echo [redacted] | gh auth login --with-token`},
	{"openssl", `openssl rsa -in k -passin pass:hunter2`, `openssl rsa -in k -passin pass:[redacted]`},
	{"unzip", `unzip -P hunter2 a.zip`, `unzip -P [redacted] a.zip`},
	{"htpasswd", `htpasswd -bc file bob hunter2`, `htpasswd -bc file bob [redacted]`},

	// Names with values.
	{"variable", `DB_PASSWORD=hunter2 ./run`, `DB_PASSWORD=[redacted] ./run`},
	{"export", `export API_KEY="hunter 2"; make`, `export API_KEY="[redacted]"; make`},
	{"inside quotes", `sh -c 'TOKEN=hunter2' && make test`, `sh -c 'TOKEN=[redacted]' && make test`},
	{"inside double quotes", `sh -c "TOKEN=hunter2 x" && make test`, `sh -c "TOKEN=[redacted] x" && make test`},
	{"joined quotes", `TOKEN=hun'ter'2 make`, `TOKEN=[redacted] make`},
	{"apostrophe", `git commit -m "don't log TOKEN=hunter2 here"`, `git commit -m "don't log TOKEN=[redacted] here"`},
	{"flag", `deploy --password hunter2 --force`, `deploy --password [redacted] --force`},
	{"flag with =", `deploy --api-key=hunter2 x`, `deploy --api-key=[redacted] x`},
	{"flag of several words", `az login --client-secret 'a b' -t x`, `az login --client-secret '[redacted]' -t x`},
	{"flag without value", `docker login --password --force`, ``},
	{"flag about a file", `deploy --token-file ./t --password-stdin x`, ``},
	{"reference", `deploy --token $TOKEN --password "${PW}" && TOKEN=$(cat f) make`, ``},
	{"JSON", `curl -d '{"user":"bob","password": "hunter2","n":1}' h`, `curl -d '{"user":"bob","password": "[redacted]","n":1}' h`},
	{"escaped JSON", `curl -d "{\"token\": \"hunter2\", \"n\": 1}" h`, `curl -d "{\"token\": \"[redacted]\", \"n\": 1}" h`},
	{"camel case", `x clientSecret=hunter2`, `x clientSecret=[redacted]`},
	{"connection string", `x "Server=db;User=sa;Pwd=hunter2;Encrypt=yes"`, `x "Server=db;User=sa;Pwd=[redacted];Encrypt=yes"`},
	{"YAML", `x "password: abc123def456"`, `x "password: [redacted]"`},
	{"AWS secret", `AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG aws s3 ls`, `AWS_SECRET_ACCESS_KEY=[redacted] aws s3 ls`},

	// What stays.
	{"prose", `git commit -m "fix token refresh; password reset works"`, ``},
	{"prose with colon", `git commit -m "token: refresh when late"`, ``},
	{"working directory", `PWD=/home/x OLDPWD=/y make`, ``},
	{"keys that are none", `sort --key=2 f; PRIMARY_KEY=id monkey=banana author=bob x`, ``},
	{"go test", `go test -race -run 'TestToken|TestPassword' ./... && git status`, ``},
	{"counts", `llm --max-tokens 100 --token-count 5 x`, ``},
	{"scripts", `npm run secret:scan && make password-reset`, ``},
	{"empty", ``, ``},
}

func TestRedactHidesSecretsAndNothingElse(t *testing.T) {
	for _, tc := range redactions {
		want := tc.want
		if want == "" {
			want = tc.text
		}
		if got := Redact(tc.text); got != want {
			t.Errorf("%s: Redact(%s)\n got %s\nwant %s", tc.name, tc.text, got, want)
		}
		if got := Redact(want); got != want {
			t.Errorf("%s: redacting twice gives %s, want %s", tc.name, got, want)
		}
	}
}

func TestEveryNameOfASecretHasAStem(t *testing.T) {
	for list, set := range map[string]map[string]bool{"secretWords": secretWords(), "keyWords": {"key": true, "auth": true, "pass": true, "pwd": true}} {
		for w := range set {
			if !slices.ContainsFunc(stems, func(stem string) bool { return strings.Contains(w, stem) }) {
				t.Errorf("%s: no stem is in %q, so it would be passed over", list, w)
			}
		}
	}
}

func FuzzRedactTwiceIsRedactOnce(f *testing.F) {
	for _, tc := range redactions {
		f.Add(tc.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		once := Redact(text)
		if twice := Redact(once); twice != once {
			t.Errorf("Redact(%q) = %q, and again %q", text, once, twice)
		}
	})
}

// Anything slower than linear would not get through these in the time a test has.
func TestRedactGetsThroughLongRuns(t *testing.T) {
	for _, unit := range []string{"TOKEN=", "password: ", `"`, `'`, `\"`, "-p ", "://a:", "echo x | ", "curl -u a:b ", "eyJa.", "$(", "secret secret=", "-----BEGIN PRIVATE KEY-----"} {
		text := strings.Repeat(unit, 1<<15/len(unit))
		if got := Redact("cd /x && " + text); !strings.HasPrefix(got, "cd /x") {
			t.Errorf("a run of %q became %.40q", unit, got)
		}
	}
}

func BenchmarkRedact(b *testing.B) {
	for name, text := range map[string]string{
		"clean": `cd src && go test -race -count=1 ./internal/... 2>&1 | tail -40`,
		"hit":   `curl -s -H "Authorization: Bearer abcdef0123456789" -d '{"password":"x"}' https://u:p@h/x`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Redact(text)
			}
		})
	}
}
